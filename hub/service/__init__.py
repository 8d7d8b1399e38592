"""The use cases, one file per noun: who may, one transaction, one decision, then who is to be told."""
