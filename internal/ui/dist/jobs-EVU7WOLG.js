import{a,b,c,d,e}from"./chunk-HQR3PU3G.js";import"./chunk-SL5RRCFP.js";import"./chunk-U2FZU7II.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
