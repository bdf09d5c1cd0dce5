"""What the screens show, as plain text with tones: pure functions over the REST Structs, no Textual."""
