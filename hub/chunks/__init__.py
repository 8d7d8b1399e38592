"""Images as chunks: what hub, command line and runner share about cutting, naming, packing and checking.

A leaf: it opens no file, speaks to no network and imports nothing of the hub, so that a runner machine
carries it. An image is one file named by the BLAKE3 of its bytes; it is cut by what it holds, and each
chunk is named by the BLAKE3 of its own bytes. What arrives is believed only once it has its name.
"""
