"""Group coordinators: who shares the partitions of a topic, and how far each group has read."""
