// What every scenario's script shares: from a shape file to k6's options and functions.
