"""The names of the rules: fifteen for a prefix cache, as `PrefixCache` has them, and twelve for a cache manager."""

from __future__ import annotations

CACHE_RULES = {
    1: "tokens and pages are checked, and bad input changes nothing",
    2: "keys and pages are copied in",
    3: "a match is the longest cached prefix, and changes no content",
    4: "insert stores whole pages, and keeps those that are there",
    5: "a split or a join changes no size, no lock and no handle",
    6: "a lock protects the path to the root until it is given back",
    7: "sizes are exact after every operation, in O(1)",
    8: "the least recently used goes first: last match, insert or unlock",
    9: "evict frees unlocked leaves, enough of them and no more",
    10: "namespaces never share",
    11: "reset forgets everything, or refuses while anything is locked",
    12: "check finds what is wrong, and nothing else",
    13: "the same operations give the same cache",
    14: "what is used together is joined",
    15: "a page is one number, however many tokens it holds",
}

MANAGER_RULES = {
    1: "a page has one owner: the pool, the cache or one request",
    2: "nothing is read that was not computed for these tokens",
    3: "a request finds whole cached pages, and computes its last token itself",
    4: "what a request reads stays: locked before room is looked for, until the end",
    5: "a request is admitted if its pages fit, and refused without any change",
    6: "finish publishes whole pages, and nothing that is not computed",
    7: "finish and abort give everything back, once",
    8: "abort publishes nothing",
    9: "a checkpoint publishes, and the request reads the cache's pages from then on",
    10: "a page is taken when the last one is full, and not before",
    11: "namespaces never share",
    12: "bad input is refused, and changes nothing",
}
