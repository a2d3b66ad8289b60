"""Starting Spark: sessions, Java, jars, and the doctor, which checks them."""
