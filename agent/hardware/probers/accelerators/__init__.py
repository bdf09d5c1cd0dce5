"""GPUs, NPUs, VPUs and TPUs: one file for each way of being found; `merge` puts the findings together."""
