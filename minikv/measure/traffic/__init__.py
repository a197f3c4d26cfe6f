"""Traffic: traces of real and made-up requests, read from every format, and what a cache finds in them."""
