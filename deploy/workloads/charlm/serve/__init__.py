"""A checkpoint of charlm behind OpenAI's chat API: python -m deploy.workloads.charlm.serve --help."""
