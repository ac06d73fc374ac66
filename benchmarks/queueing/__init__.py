"""What `bench_queue` is made of: jobs of a trace, and the product's scheduler in virtual time over them."""
