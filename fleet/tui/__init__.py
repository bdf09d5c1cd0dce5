"""The operator's screen (Textual): talks to the REST API only, so it runs on another machine than the server."""
