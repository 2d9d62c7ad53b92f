"""Every figure that the two documents print, computed again and compared.

One module for each part of the documents: `FIGURES` says how the library
computes a printed value, `CLAIMS` how it judges a sentence, by id. Nothing is
computed before it is asked for. `catalogue` unites them with the printed values.
"""
