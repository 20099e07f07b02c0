module truechimer/group

go 1.19
