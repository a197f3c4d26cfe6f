"""Copy on write: sequences that share pages until one of them writes; what a page holds, and how it is found."""
