"""The two sessions of a federated run, free of input and output: messages in, actions out."""
