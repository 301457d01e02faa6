import{a,b,c,d,e}from"./chunk-KM26IJO2.js";import"./chunk-V7JS5EVJ.js";import"./chunk-HB7UWS4Y.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
