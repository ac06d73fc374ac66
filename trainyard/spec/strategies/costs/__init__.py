"""What a training costs, in the terms in which strategies say what they change of it: sections, layouts, stages."""
