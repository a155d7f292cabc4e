"""How vLLM's own functions are loaded and called: `load` brings the package in, `tables`, `indexer` and `attention` serve the ops."""
