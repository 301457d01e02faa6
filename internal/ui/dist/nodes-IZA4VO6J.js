import{a,b}from"./chunk-GFOJ2LFM.js";import"./chunk-H3DN4RMK.js";import"./chunk-2YLZEQWE.js";import"./chunk-JR26RU3P.js";export{b as default,a as nodeState};
