"""Where samples come from: one module a source, each yielding what ``write_shards`` takes."""
