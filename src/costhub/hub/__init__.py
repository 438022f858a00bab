"""Where models live: the embedded hub, shared folders and the Hugging Face hub."""
