"""Stands in for pycocotools, which effdet imports for scoring and which the networks exported here never use."""
