"""The cache manager: a pool, a prefix cache and perhaps a store, and the life of a request through all three."""
