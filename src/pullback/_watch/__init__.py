"""What :func:`pullback.watch` is made of: one log of operations, and small rules over it.

``log`` holds what happened, ``recorder`` writes it, and each rule, a function in one of the
other modules, reads it and says what is wrong.
"""
