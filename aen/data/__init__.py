"""Images and labels: by name, from files, from arrays; TFDS builders."""
