//! The outside form of the model's objects, for the API, the command line and files.
