import{a,b}from"./chunk-XXXZPX5Z.js";import"./chunk-HQR3PU3G.js";import"./chunk-SL5RRCFP.js";import"./chunk-U2FZU7II.js";export{b as default,a as nodeState};
