"""What travels between hub, runner and clients, and the pipeline file.

A leaf: pydantic only (and PyYAML in `pipeline_yaml`), so that a runner machine and the command line
load neither a database nor a web framework. Requests refuse what they do not know, naming the
field; answers may grow, and whoever reads one ignores what it does not know.
"""
