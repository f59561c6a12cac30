graph [
  label "Ring of three"
  node [ id 0 label "x" ]
  node [ id 1 label "y" ]
  node [ id 2 label "y" kind "switch" ]
  edge [ source 0 target 1 LinkSpeedRaw 10000000000.0 LinkLabel "10 Gbps" ]
  edge [ source 0 target 1 LinkSpeedRaw 2400000000.0 ]
  edge [ source 1 target 2 bandwidth "1GB/s" latency "3ms" ]
  edge [ source 2 target 0 ]
]
