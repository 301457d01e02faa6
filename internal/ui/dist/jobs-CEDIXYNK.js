import{a,b,c,d,e}from"./chunk-H3DN4RMK.js";import"./chunk-2YLZEQWE.js";import"./chunk-JR26RU3P.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
