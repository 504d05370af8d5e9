"""Sessions and runs that survive: records, the Store protocol, and the runtime over it."""
