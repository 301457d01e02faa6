import{a,b,c,d,e}from"./chunk-QPG7EI33.js";import"./chunk-4W6GEQRI.js";import"./chunk-QMK5YXUB.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
