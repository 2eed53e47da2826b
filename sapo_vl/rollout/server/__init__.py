"""What runs inside the vLLM server, in its own environment: nothing here imports the package."""
