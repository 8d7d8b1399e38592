"""Where a job's steps run: one module per tier behind the promise in `base`."""
