# %% [markdown]
"""
# The map and the glossary

Each chapter answers one question, and names the chapters that it needs. Up to 08, each goes on with what you built before it. Most words of the glossary are in **bold** where their chapter explains them.

## The map

| chapter | question |
|---|---|
| [00 start here](00_start_here.ipynb) | What does a prefix cache buy? |
| [01 page sizing](01_page_sizing.ipynb) | How many tokens fit in this GPU? |
| [02 slot pools](02_slot_pools.ipynb) | Who owns which slot? |
| [03 radix splitting](03_radix_splitting.ipynb) | How do prompts share a prefix? |
| [04 locking](04_locking.ipynb) | What must not be evicted now? |
| [05 LRU eviction](05_lru_eviction.ipynb) | What goes first? |
| [06 GPU KV copying](06_gpu_kv_copying.ipynb) | How do the bytes move? |
| [07 cache manager](07_cache_manager.ipynb) | What happens in the life of a request? |
| [08 serving engine](08_serving_engine.ipynb) | Does the cache change a single answer? |
| [09 token trie](09_token_trie.ipynb) | What is the simplest index that works? |
| [10 hash blocks](10_hash_blocks.ipynb) | Can a dictionary replace the tree? |
| [11 copy on write](11_copy_on_write.ipynb) | What if two answers begin alike and then part? |
| [12 sliding window](12_sliding_window.ipynb) | What if a layer forgets? |
| [13 policies and traces](13_policies_and_traces.ipynb) | Which policy wins on which traffic? |
| [Which one do I choose?](which_design.ipynb) | six designs, five situations |

## Glossary

| word | meaning | chapter |
|---|---|---|
| token | the unit a model reads: a number that stands for a piece of text | 00 |
| prefill | reading the prompt: computing keys and values of all its tokens | 00 |
| prefix | the first tokens of a sequence, any number of them | 00 |
| slot | the place where one token's keys and values lie | 00 |
| hit rate | the share of prompt tokens that came from the cache | 00 |
| KV cache | the keys and values that an engine keeps, and the memory they are in | 00 |
| KV head | one of the sets of keys and values that a layer keeps for a token | 01 |
| rank | one GPU of a group that shares a model | 01 |
| GQA | grouped-query attention: several query heads share one KV head | 01 |
| MLA | latent attention: one small vector a token in place of keys and values | 01 |
| page | a fixed number of neighboring slots, handed out together | 01 |
| page table | for each request the slots of its tokens, in order | 01 |
| pool | the part of an engine that tracks which pages are free | 02 |
| free list | a pool as a stack of free pages | 02 |
| double free | giving back a page that is free already | 02 |
| version | a count of how often a page was handed out | 02 |
| owner | the one that may write to a page and give it back; there may be many readers | 02 |
| evict | throw something out of the cache to make room | 02 |
| trie | a tree with one token on each edge | 03 |
| radix tree | a tree with a run of tokens on each edge | 03 |
| edge, node | an edge is a run of tokens, a node the place where it ends; pictures show both as one box | 03 |
| split | cutting an edge in two where two prompts part | 03 |
| page alignment | storing and matching whole pages only | 03 |
| namespace | a label that keeps equal prompts apart | 03 |
| lock | a request's claim on a prefix: nothing on the path to it may be evicted | 04 |
| handle | a place in the tree, the end of a prefix: what is locked and unlocked | 04 |
| reference count | how many locks pass through a node | 04 |
| evictable | under no lock: could be thrown out to make room | 04 |
| protected | under a lock | 04 |
| canary | a watcher that knows what was computed into each slot, and complains when something else is read | 04 |
| ledger | a watcher that knows who owns each slot, and compares that with the pool and the tree | 04 |
| victim | what an eviction takes next | 05 |
| LRU | least recently used: what was used longest ago goes first | 05 |
| logical clock | a counter that goes up by one with each use, in place of the time | 05 |
| ring | everything that may be evicted, in the order of its last use; anything can move to the young end in one step | 05 |
| layout | the order in which layers, slots, keys and values lie in memory | 06 |
| gather | reading rows from many places into one tensor | 06 |
| scatter | writing the rows of one tensor to many places | 06 |
| pinned memory | host memory that the system does not move, so that a GPU can copy from and to it by itself | 06 |
| break-even | the number of tokens from which loading them is faster than computing them again | 06 |
| cache manager | the part that drives pool, tree and page table through the life of a request | 07 |
| row | the pages of one request, in the order of its tokens | 07 |
| publish | put what is computed into the tree, for others to find | 07 |
| duplicate | a page whose keys and values the tree has already, in a page of its own | 07 |
| tail | the end of a row: a page that is not full, and everything that is not computed yet | 07 |
| abort | the end of a request without publishing anything | 07 |
| checkpoint | publishing while the request runs on, and reading from the tree from then on | 07 |
| interleaving | one of the orders in which the steps of several requests can be mixed | 07 |
| decode | writing an answer, one token at a time | 08 |
| time to first token | how long a request waits for the beginning of its answer, here in steps of the engine | 08 |
| continuous batching | after any step a finished request leaves the batch and a waiting one joins it | 08 |
| chunked prefill | reading a long prompt in pieces, while other requests decode | 08 |
| preemption | a running request gives up its slots and waits again | 08 |
| token trie | a prefix cache with one token on each edge, and so one node a token | 09 |
| stale | what names memory that has been taken for something else since | 09 |
| pin | lock the path of what a running request uses | 09 |
| block hash | the name of a page of tokens: a hash of them and of the name in front | 10 |
| collision | two different inputs with one hash | 10 |
| salt | a secret text that goes into every hash of one customer | 10 |
| side channel | what can be learned from how long something takes, or from another trace that it leaves | 10 |
| fork | making two sequences of one, without a copy of its pages | 11 |
| copy on write | pages are shared until somebody writes to one, who then copies it first | 11 |
| alias | a second name for the same thing in memory | 11 |
| beam search | following the best few sequences at the same time, of which one may become two | 11 |
| speculative decoding | guessing several tokens, and letting the model check all of them in one step | 11 |
| draft | guessed tokens behind a sequence, of which the wrong ones are taken back | 11 |
| sliding window | the last tokens before a token, when a layer attends to no others | 12 |
| tombstone | a cached token whose windowed layers have lost its keys and values | 12 |
| window slot | the place where a token's keys and values for the windowed layers lie | 12 |
| receipt | a list of what a lock has taken, to give back exactly that | 12 |
| policy | a rule that says which leaf is evicted first | 13 |
| LFU | least frequently used: what was used least often goes first | 13 |
| FIFO | first in, first out: what was cached first goes first, however much it is used | 13 |
| trace | a record of requests, in the order in which they came | 13 |
"""
