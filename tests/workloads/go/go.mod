module workload

go 1.19
