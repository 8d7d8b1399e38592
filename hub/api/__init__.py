"""JSON over HTTP: the routes on one screen (`routes`), who is asking, bodies in, problems out."""
