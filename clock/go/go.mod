module truechimer

go 1.19
