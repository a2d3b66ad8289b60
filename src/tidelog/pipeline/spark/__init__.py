"""Starting Spark: sessions, Java, jars, and the doctor who judges them."""
