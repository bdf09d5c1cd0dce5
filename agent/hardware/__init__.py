"""What the device is: facts read from /proc, /sys, device nodes and vendors' tools, and the profile that fits them."""
