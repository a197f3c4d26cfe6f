"""Why a prompt missed: where two prompts part, what kind of change that is, and what each kind of cache would reuse."""
