"""Prompts of small tests as digits: b"124" is a prompt of three tokens, and a page has the number of its prefix.

So 124 is the page of the 4 that follows 12: a test names its pages, and what `evict` returns says which prefixes went.
"""


def put(cache, *prompts, plus=0, **options):
    """Insert `prompts` one after the other and return the last insertion; `plus` makes other pages of the same."""
    for prompt in prompts:
        ends = range(cache.page_size, len(prompt) + 1, cache.page_size)
        done = cache.insert(prompt, [int(prompt[:end]) + plus for end in ends], **options)
    return done


def edges(cache):
    """The tokens of every edge, parents first."""
    return [bytes(node.tokens) for node in cache.nodes()]
