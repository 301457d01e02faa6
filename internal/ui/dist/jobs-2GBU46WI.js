import{a,b,c,d,e}from"./chunk-6VS5Q4OG.js";import"./chunk-WFONAVEO.js";import"./chunk-7VAX6LL7.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
