"""The command line: an HTTP client of the hub that prints what the hub says.

Sentences (placed, waiting, lacks, remedies) are printed byte for byte as the API gives them: they
are made in one place, on the hub, and never composed, wrapped or cut here. Views are read as plain
JSON rather than as wire models, so that `shunter run view 42` starts in a fifth of a second, and so
that a newer hub's additions pass through. What a job or another person wrote goes through
`terminal` before it reaches a screen. Only `admin` reaches the server, inside its functions.
"""
