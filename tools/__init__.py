"""Programs for contributors, not installed: reference pages, pictures, a trial of the wheel."""
