"""The command line's commands, one file for each concern; `engine.cli` puts them together."""
