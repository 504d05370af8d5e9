"""The doors of a server: /v1, AG-UI, SPARQL. They hold no logic; what a door needs, the runtime does."""
