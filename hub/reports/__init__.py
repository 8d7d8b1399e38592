"""Test results and coverage as jobs leave them: XML of a stranger's in, bounded values out.

Pure but for the one file that is read: no clock, no database, no network, no await. A file is never
trusted: it has bounds on its bytes, its depth, its elements and its texts, it may declare no document
type and no entity, and whatever was cut or could not be read is told in words with the result.
"""
