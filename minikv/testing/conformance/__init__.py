"""The conformance kit: whether anybody's prefix cache or cache manager keeps the rules, and where it breaks one."""
