"""The tests of tidelog; packages, so that files of the same name may live side by side."""
