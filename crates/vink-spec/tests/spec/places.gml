# made by hand
Creator "Topology Zoo Toolset"
graph [
  Network "Two islands"
  node [
    id 0
    label "Berlin"
    graphics [ x 1 y 2 ]
    Latitude 52.52
    Longitude 13.41
  ]
  node [ id 1 label "M&#252;nchen" Latitude 48.14 Longitude 11.58 ]
  node [ id 2 label "Island" ]
  node [ id 3 label "Isle" ]
  edge [ source 0 target 1 LinkSpeedRaw 1000000.0 ]
  edge [ source 2 target 3 ]
]
