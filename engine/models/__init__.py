"""What answers: the catalog, the loader and the check that a model can be hooked."""
