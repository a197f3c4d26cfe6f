# %% [markdown]
"""
# The map and the glossary

Each chapter answers one question. Chapters 00 to 08 build one engine, each on top of what you built before. You can read the others in any order, after the chapters that they need. Most words in the glossary are in **bold** where their chapter explains them. The times at the top of a chapter leave out "More to try".

## The map

An arrow leads from a chapter to the next one that needs it.

```
00 → 01 → 02 → 03 → 04 → 05 → 07 → 08    the engine that you build
                    │     ├→ 06 ────┘    copies on a GPU
                    │     ├→ 09          a simpler index
                    │     ├→ 10 ─┐       a dictionary instead of a tree
                    │     ├→ 12  │       layers that forget
                    │     └→ 13  │       eviction policies on real traffic
                    └──────→ 11 ←┤       answers that share their beginning
                             14 ←┤       a second tier in host memory, with 06 and 13
                             15 ←┘       layers that disagree, with 12
```

| chapter | question | needs |
|---|---|---|
| [00 start here](00_start_here.ipynb) | What does a prefix cache buy? | – |
| [01 page sizing](01_page_sizing.ipynb) | How many tokens fit in this GPU? | 00 |
| [02 slot pools](02_slot_pools.ipynb) | Who owns which slot? | 00, 01 |
| [03 radix splitting](03_radix_splitting.ipynb) | How do prompts share a prefix? | 00, 02 |
| [04 locking](04_locking.ipynb) | What must not be evicted now? | 02, 03 |
| [05 LRU eviction](05_lru_eviction.ipynb) | What goes first? | 02 to 04 |
| [06 GPU KV copying](06_gpu_kv_copying.ipynb) | How do the bytes move? | 01, 02, 05 |
| [07 cache manager](07_cache_manager.ipynb) | What happens in the life of a request? | 02 to 05 |
| [08 serving engine](08_serving_engine.ipynb) | Does the cache change a single answer? | 02, 04, 06, 07 |
| [09 token trie](09_token_trie.ipynb) | What is the simplest index that works? | 02 to 05 |
| [10 hash blocks](10_hash_blocks.ipynb) | Can a dictionary replace the tree? | 02 to 05 |
| [11 copy on write](11_copy_on_write.ipynb) | What if two answers start the same and then diverge? | 02 to 04, 10 |
| [12 sliding window](12_sliding_window.ipynb) | What if a layer forgets? | 02 to 05 |
| [13 policies and traces](13_policies_and_traces.ipynb) | Which policy wins on real traffic? | 05 |
| [14 tiers](14_tiers.ipynb) | Where does evicted KV go? | 02, 04 to 06, 10, 13 |
| [15 layers that disagree](15_layers_that_disagree.ipynb) | What if the layers of one model disagree? | 10, 12 |
| [Which one do I choose?](which_design.ipynb) | six designs, five situations | – |

## A fast track

If you serve models and want to understand an engine without building all of it, read each of these chapters up to the second of its two pieces below, which takes about 20 minutes, and its recap. Write these two, and leave the others to the package.

| chapter | write | what you take away |
|---|---|---|
| 00 | nothing: guess 0.a and 0.c | what one changed character early in a prompt costs |
| 01 | 1.1 `bytes_per_token`, 1.3 `pages_that_fit` | how many tokens fit in a GPU |
| 02 | 2.1 `alloc`, 2.3 `free` | why a slot has one owner |
| 03 | 3.3 `split`, 3.4 `walk` | what two prompts share, and where they diverge |
| 04 | 4.1 `lock`, 4.2 `unlock` | why a running request can't lose its prefix |
| 05 | 5.3 `touch`, 5.4 `evict` | what is evicted first, and what is not |
| 08 | 8.3 `schedule`, 8.4 `run_step` | which requests wait for a long prompt, and how long |
| 10 | 10.1 `block_keys`, 10.2 `longest_hit` | why hits come in whole blocks |
| 12 | 12.1 `valid_length`, 12.2 `hold` | what sliding windows change |
| 14 | 14.1 `worth_loading`, 14.2 `host_victim` | when host memory pays off |
| 15 | 15.3 `longest`, 15.4 `common_hit` | why a model with states finds less than it has |

The separate package `minikv-tools` answers questions like these for your own logs.

## Glossary

| word | meaning | chapter |
|---|---|---|
| token | the unit that a model reads: a number that stands for a piece of text | 00 |
| prefill | reading the prompt: computing the keys and values of all its tokens | 00 |
| prefix | the beginning of a sequence of tokens, of any length | 00 |
| slot | the place where the keys and values of one token are stored | 00 |
| hit rate | the share of prompt tokens that come from the cache | 00 |
| KV cache | the keys and values that an engine keeps, and the memory they are in | 00 |
| KV head | a part of attention that keeps one key vector and one value vector per token | 01 |
| rank | one of the GPUs among which a model is divided | 01 |
| GQA | grouped-query attention: several query heads share one KV head | 01 |
| MLA | multi-head latent attention: one small vector per token and layer in place of keys and values | 01 |
| page | a fixed number of neighboring slots, handed out together | 01 |
| page table | the slots of each request's tokens, in order | 01 |
| row | the slots of one request, in the order of its tokens; from chapter 07 on, its pages | 01 |
| pool | the part of an engine that keeps track of free pages | 02 |
| free list | a pool that keeps its free pages on a stack | 02 |
| double free | giving back a page that is already free | 02 |
| version | a count of how often a page has been handed out | 02 |
| owner | the only one that may write to a page or give it back: a request, or the cache once the page is published; many may read it | 02 |
| trie | a tree with one token on each edge | 03 |
| radix tree | a tree with one or more tokens on each edge | 03 |
| edge, node | an edge holds tokens, and a node is where it ends; pictures show both as one box | 03 |
| split | cutting an edge in two where two prompts diverge | 03 |
| page alignment | storing and matching only whole pages | 03 |
| namespace | a label that keeps equal prompts apart | 03 |
| evict | remove something from the cache to make room | 03 |
| lock | a request's claim on a prefix: nothing on the path to it may be evicted | 04 |
| handle | an object that remembers the node where a prefix ends | 04 |
| reference count | how many locks pass through a node | 04 |
| evictable | not locked, so it can be evicted to make room | 04 |
| protected | under a lock | 04 |
| receipt | a record of what a lock took, so that exactly that can be given back | 04 |
| canary | a watcher that remembers what was computed into each slot, and raises an error if something else is read | 04 |
| ledger | a watcher that records who owns each slot, and compares that with the pool and the tree | 04 |
| victim | the node that an eviction takes next | 05 |
| LRU | least recently used: the one unused for the longest time is evicted first | 05 |
| logical clock | a counter that goes up by one with each use, instead of the time | 05 |
| ring | everything that can be evicted, in the order of its last use; anything can move to the newest end in one step | 05 |
| layout | the order in which layers, slots, keys and values lie in memory | 06 |
| gather | reading rows from many places into one tensor | 06 |
| scatter | writing the rows of one tensor to many places | 06 |
| pinned memory | host memory that the system doesn't move, so a GPU can copy to and from it directly | 06 |
| stream | a queue of work for a GPU; work in two streams can overlap | 06 |
| break-even | the number of tokens at which loading them becomes faster than computing them again | 06 |
| cache manager | the part that drives pool, tree and page table through the life of a request | 07 |
| publish | put computed tokens into the tree, where others can find them | 07 |
| duplicate | a page whose keys and values the tree already has in another page | 07 |
| tail | the end of a row: a page that isn't full, and everything that isn't computed yet | 07 |
| abort | end a request, publishing nothing more | 07 |
| checkpoint | publishing while the request keeps running, and reading from the tree from then on | 07 |
| interleaving | one of the orders in which the steps of several requests can be mixed | 07 |
| decode | writing an answer, one token at a time | 08 |
| time to first token | how long a request waits for the first token of its answer, here in steps of the engine | 08 |
| continuous batching | after any step, a finished request leaves the batch and a waiting one can join it | 08 |
| chunked prefill | reading a long prompt in pieces, while other requests decode | 08 |
| preemption | taking the slots of a running request, which then waits again | 08 |
| token trie | a prefix cache with one token on each edge, and so one node per token | 09 |
| stale | describes a handle whose memory has been reused for something else | 09 |
| pin | lock the path that a running request uses | 09 |
| block hash | the name of a page of tokens: a hash of them and of the name before it | 10 |
| collision | two different inputs with the same hash | 10 |
| salt | a secret text that goes into every hash of one customer | 10 |
| side channel | a leak through how long something takes, or through another trace | 10 |
| fork | making two sequences out of one without copying its pages | 11 |
| copy on write | pages are shared until somebody writes to one; the writer copies it first | 11 |
| alias | a second name for the same thing in memory | 11 |
| beam search | following the best few sequences at the same time; any of them may fork | 11 |
| speculative decoding | guessing several tokens and letting the model check them all in one step | 11 |
| draft | guessed tokens at the end of a sequence; the wrong ones are taken back | 11 |
| sliding window | the latest tokens, if a layer attends to no others | 12 |
| tombstone | a cached token whose keys and values the windowed layers have lost | 12 |
| window slot | the place where a token's keys and values for the windowed layers are stored | 12 |
| policy | a rule that says which leaf is evicted first | 13 |
| LFU | least frequently used: the one used the fewest times is evicted first | 13 |
| FIFO | first in, first out: the one cached first is evicted first, regardless of its use | 13 |
| trace | a record of requests in order of arrival | 13 |
| reuse distance | how many different blocks were used since a block's last use, plus one for itself: the smallest cache, in blocks, in which LRU still has it | 13 |
| time to live | the time after its last use at which a block is forgotten, even if memory is free | 13 |
| tier | a place where keys and values are kept, such as the GPU's memory or host memory | 14 |
| demotion | copying a block to the next tier before its page is freed | 14 |
| write policy | the rule that says when a block is copied to the next tier | 14 |
| write-back | a write policy: a block is copied when it is evicted | 14 |
| write-through | a write policy: a block is copied as soon as it is computed | 14 |
| group | the layers of a model that keep the same | 15 |
| state | the sum that a recurrent layer keeps in place of tokens; its size is fixed | 15 |
| grid | the places where a block of every group of layers ends | 15 |
| junction | the place where a prompt leaves an earlier one | 15 |
| replay | computing the last tokens before a hit again, to fill the windows | 15 |
"""
