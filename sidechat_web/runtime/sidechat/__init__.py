"""The side session: a plug-in over create, inject and the `tools/pre-execute` gate.

A side is an ordinary session whose own events hold an `advisor` frame and no later `promotion`. Nothing
below this package knows of sides; without it a working agent chat remains.
"""
